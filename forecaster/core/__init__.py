"""Values that packages exchange: arrays, panel, marks, forecast, knowledge, and helpers without
further dependencies."""
