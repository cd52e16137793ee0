"""What is measured and promised of the product, as Prometheus, a command and the page tell it; all
from the ledger."""
