// Builds elements. Text only ever becomes text nodes: there is no way from a
// string to markup, and the page's policy (trusted types) would refuse one.

export type Child = Node | string | number | null | undefined | false | readonly Child[];

type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

export interface Props {
  on?: Listeners;
  [attribute: string]: unknown;
}

/** Makes an element. Attributes that are false, null or undefined are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props | null, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") listen(element, value as Listeners);
    else attribute(element, name, value);
  }
  append(element, children);
  return element;
}

function listen(element: HTMLElement, listeners: Listeners): void {
  for (const [name, listener] of Object.entries(listeners)) element.addEventListener(name, listener as EventListener);
}

function attribute(element: Element, name: string, value: unknown): void {
  if (value === false || value === null || value === undefined) return;
  // What stands in an item is never an address: links lead to our own paths.
  if (name === "href" && !ownAddress(String(value))) return;
  if (name.startsWith("on") || name === "style" || name === "srcdoc") throw new TypeError("not an attribute: " + name);
  element.setAttribute(name, value === true ? "" : String(value));
}

/** Tells whether a link may lead there: a path of ours, a place on this page, a file made here. */
export function ownAddress(address: string): boolean {
  return /^\/(?![/\\])/.test(address) || address.startsWith("#") || address.startsWith("blob:" + location.origin + "/");
}

export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) parent.appendChild(child);
    else if (typeof child === "string" || typeof child === "number") parent.appendChild(document.createTextNode(String(child)));
    else append(parent, child);
  }
}

/** Replaces what an element holds. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

let counter = 0;

/** Answers an id that no other element of the page has. */
export function uid(prefix: string): string {
  return `${prefix}-${++counter}`;
}
