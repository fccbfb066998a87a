// Light or dark: the browser's preference, or the person's own choice.

export const themes = ["auto", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

export function theme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "light" || chosen === "dark" ? chosen : "auto";
}

export function setTheme(to: Theme): void {
  if (to === "auto") {
    delete document.documentElement.dataset["theme"];
    localStorage.removeItem("chaperone.theme");
  } else {
    document.documentElement.dataset["theme"] = to;
    localStorage.setItem("chaperone.theme", to);
  }
}
