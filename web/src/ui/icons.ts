// The icons, drawn here so that no request leaves for them. 24 by 24, one stroke.

const paths = {
  collections: "M3 7.5 5 4h5l2 2.5h9v13H3z",
  automation: "M12 3v3M6 9h12a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2zM9 14h.01M15 14h.01M2 13v3M22 13v3M12 6v3",
  apps: "M9 7V3M15 7V3M7 7h10v4a5 5 0 0 1-10 0zM12 16v5",
  agents: "M3 5h18v14H3zM3 9h18M6 7h.01M9 7h.01M9 13l2 2 4-3",
  audit: "M7 3h10v18H7zM10 8h4M10 12h4M10 16h2M4 6v12M20 6v12",
  settings: "M4 7h9M17 7h3M4 12h3M11 12h9M4 17h7M15 17h5M15 5v4M9 10v4M13 15v4",
  approvals: "M12 3 5 6v6c0 4 3 7 7 9 4-2 7-5 7-9V6zM9 12l2 2 4-4",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5 21 21",
  plus: "M12 5v14M5 12h14",
  upload: "M12 16V4M7 9l5-5 5 5M4 20h16",
  download: "M12 4v12M7 11l5 5 5-5M4 20h16",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  close: "M6 6l12 12M18 6 6 18",
  check: "M5 12.5 10 17 19 7",
  warning: "M12 4 2.5 20h19zM12 10v5M12 17.5v.01",
  info: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 11v5M12 8v.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  key: "M15.5 3a5.5 5.5 0 1 1-1.9 10.7L12 15.3H9.7v2.4H7.3V20H4v-3.3l6.3-6.3A5.5 5.5 0 0 1 15.5 3zM16.7 7.3v.01",
  inbox: "M4 13 6 5h12l2 8v6H4zM4 13h5a3 3 0 0 0 6 0h5",
  external: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  back: "M15 5l-7 7 7 7",
  next: "M9 5l7 7-7 7",
  signout: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2",
  clock: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 7v5l3.5 2",
  offline: "M3 3l18 18M5 12.5a10 10 0 0 1 4-2.3M19 12.5a10 10 0 0 0-5-2.6M8.5 16a5 5 0 0 1 7 0M12 20v.01",
  refresh: "M20 11a8 8 0 0 0-14-4L4 9M4 4v5h5M4 13a8 8 0 0 0 14 4l2-2M20 20v-5h-5",
  stop: "M6 6h12v12H6z",
  pause: "M9 6v12M15 6v12",
  power: "M12 3v9M7 6.5a8 8 0 1 0 10 0",
  play: "M8 5l11 7-11 7z",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
} as const;

export type IconName = keyof typeof paths;

const space = "http://www.w3.org/2000/svg";

/** Draws an icon. It is decoration: what it stands for is always said in words too. */
export function icon(name: IconName, size = 18): SVGElement {
  const svg = document.createElementNS(space, "svg");
  const set = { viewBox: "0 0 24 24", width: size, height: size, class: "icon", "aria-hidden": "true", focusable: "false" };
  for (const [k, v] of Object.entries(set)) svg.setAttribute(k, String(v));
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", paths[name]);
  svg.append(path);
  return svg;
}

/** The product's mark: a figure beside, not in front. */
export function mark(size = 24): SVGElement {
  const svg = document.createElementNS(space, "svg");
  const set = { viewBox: "0 0 24 24", width: size, height: size, class: "mark", "aria-hidden": "true", focusable: "false" };
  for (const [k, v] of Object.entries(set)) svg.setAttribute(k, String(v));
  for (const [d, part] of [
    ["M12 2 3.5 5.5v6c0 5 3.5 8.5 8.5 10.5 5-2 8.5-5.5 8.5-10.5v-6z", "shield"],
    ["M8 12.2a4 4 0 0 1 7.2-2.4M16 11.8a4 4 0 0 1-7.2 2.4", "hands"],
  ] as const) {
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", d);
    path.setAttribute("class", "mark-" + part);
    svg.append(path);
  }
  return svg;
}
