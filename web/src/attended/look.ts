// How the floating panel looks, light and dark.

export const look = `
:host { all: initial; color-scheme: light dark; position: fixed; inset: auto 1rem 1rem auto; z-index: 2147483000; }
*, *::before { box-sizing: border-box; margin: 0; padding: 0; }
.box { display: grid; justify-items: end; gap: 0.5rem; font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: light-dark(#1a2130, #e7ebf2); }
.body { width: min(22rem, calc(100vw - 2rem)); max-height: min(28rem, calc(100vh - 6rem)); overflow: auto; display: grid; gap: 0.5rem; padding: 0.9rem 1rem; border-radius: 0.75rem; overflow-wrap: anywhere;
  background: light-dark(#ffffff, #1e2531); border: 1px solid light-dark(#dfe3ea, #3a4456); box-shadow: 0 12px 40px rgb(10 18 36 / 30%); }
.body[hidden] { display: none; }
h2 { font-size: 1rem; font-weight: 650; }
code { font: 0.8125rem/1.4 ui-monospace, Menlo, Consolas, monospace; background: light-dark(#eef1f5, #2b3341); border-radius: 0.25rem; padding: 0 0.25rem; }
.hint { color: light-dark(#566072, #a9b3c3); font-size: 0.8125rem; }
.left { font-weight: 620; font-variant-numeric: tabular-nums; color: light-dark(#17633d, #7fd9a8); }
.wrong { color: light-dark(#a8201a, #ff9d96); }
.hidden-mark { unicode-bidi: isolate; color: light-dark(#7a4b00, #f0c377); font-family: ui-monospace, monospace; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
ul { list-style: none; display: grid; gap: 0.35rem; border-top: 1px solid light-dark(#dfe3ea, #3a4456); padding-top: 0.5rem; }
.acts { display: flex; gap: 0.5rem; }
button, a { font: inherit; display: inline-flex; align-items: center; gap: 0.4rem; min-height: 2rem; padding: 0.25rem 0.75rem; border-radius: 0.5rem; border: 1px solid light-dark(#7d8798, #76839a);
  background: light-dark(#ffffff, #181d27); color: inherit; cursor: pointer; text-decoration: none; }
.primary { background: light-dark(#1f5fbf, #7fb0ff); border-color: transparent; color: light-dark(#ffffff, #0b1a33); }
.danger { color: light-dark(#a8201a, #ff9d96); border-color: currentcolor; }
.face { border-radius: 2rem; padding: 0.35rem 0.9rem 0.35rem 0.5rem; box-shadow: 0 4px 16px rgb(10 18 36 / 25%); font-weight: 560; }
.face[data-arm="on"] { color: light-dark(#17633d, #7fd9a8); border-color: currentcolor; }
:focus-visible { outline: 2px solid light-dark(#1f5fbf, #7fb0ff); outline-offset: 2px; }
.icon, .mark { flex: none; fill: none; stroke: currentcolor; stroke-width: 1.75; stroke-linecap: round; stroke-linejoin: round; }
.mark-shield { fill: light-dark(#1f5fbf, #7fb0ff); stroke: none; }
.mark-hands { stroke: light-dark(#ffffff, #0b1a33); }
@media (forced-colors: active) { .mark { stroke: currentcolor; } }
`;
