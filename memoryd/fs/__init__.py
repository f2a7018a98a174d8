"""File system primitives: safe opening, locks, atomic replacement, hanging disks."""
