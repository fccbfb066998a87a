// Runs before the first paint, so that a chosen theme or language doesn't flash
// in after the browser's own.

try {
  const theme = localStorage.getItem("chaperone.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
  const language = localStorage.getItem("chaperone.language");
  document.documentElement.lang = language === "es" || language === "en" ? language : navigator.language.startsWith("es") ? "es" : "en";
} catch {
  // Storage is switched off: the browser's own preferences stand.
}

export {};
