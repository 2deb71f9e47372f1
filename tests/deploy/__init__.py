"""What an administrator applies: manifests, rights, limits, Redis users and images."""
