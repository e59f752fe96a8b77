"""What may cross a process or reach a row."""
