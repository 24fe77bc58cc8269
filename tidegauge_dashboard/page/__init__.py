"""What is seen means: states, sentences, scales and times as text. Pure; the page only draws."""
