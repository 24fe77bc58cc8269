"""What goes on by itself: compaction, thinning, purging, stamps of listening time."""
