// Whether a submit of the review form is an act of this browser's own input.
//
// A script's click() makes a trusted submit event, requestSubmit too; what no
// script can make is a trusted click (a key's press and a label's click are ones)
// whose default action is a trusted submit by that very button, in one dispatch.
// An agent's declarative submit says so itself. What this can't tell is who moved
// the pointer: so nothing here is ever called a person's approval.

/** Calls accepted for each submit that passes; it passes once for each press. */
export function guardSubmit(form: HTMLFormElement, button: HTMLButtonElement, accepted: () => void): void {
  let pressed = false;
  button.addEventListener("click", (event) => {
    pressed = event.isTrusted && button.getAttribute("aria-disabled") !== "true";
    // The submit comes within the click's own dispatch; a task later it is over.
    setTimeout(() => {
      pressed = false;
    }, 0);
  }, { capture: true });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const own = pressed && event.isTrusted && event.submitter === button && (event as { agentInvoked?: boolean }).agentInvoked !== true;
    pressed = false;
    if (own && form.checkVisibility({ opacityProperty: true, visibilityProperty: true })) accepted();
  });
}
