"""What is done once however often it is tried: a write of the page, a receiver's morning digest, and
an event of a webhook."""
