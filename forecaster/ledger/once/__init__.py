"""What is done once however often it is tried: a write of the page, and a receiver's morning
digest."""
