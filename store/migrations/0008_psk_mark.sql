-- What a text is compared with that may be the PSK: sealed. NULL: the key was set before there was one.
ALTER TABLE psks ADD COLUMN mark TEXT;
