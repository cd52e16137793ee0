"""HTTP routes for planners: accepted crews, the workbook of a week, and published schedules."""
