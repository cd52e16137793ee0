"""What a run has to say of itself when it ends."""
