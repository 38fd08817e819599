"""What operators set: users and permissions, policies, and the settings of a node."""
