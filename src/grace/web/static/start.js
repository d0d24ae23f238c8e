// Before anything is drawn: what only works with scripts is shown, and nothing jumps.
document.documentElement.classList.add("js");
