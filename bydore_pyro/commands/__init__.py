"""The commands of `bydore`, one file each."""
