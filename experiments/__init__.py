"""One folder per table or figure of the paper."""
