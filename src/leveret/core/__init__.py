"""The broker itself, without I/O, clock, threads or chance: bytes and time go in, bytes and deadlines come out."""
