"""What `conductor doctor` looks at: machine, mount, bus. Each module yields findings and changes nothing."""
