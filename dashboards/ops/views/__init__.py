"""What each page says, worked out before any template writes it down."""
