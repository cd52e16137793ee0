"""Operations done once however often they are retried: a write of the page, a receiver's morning
digest, an event of a webhook."""
