"""Text to tokens: what `--data` names, and how it becomes a token store."""
