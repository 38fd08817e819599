"""What a broker did and how it stands, as text."""
