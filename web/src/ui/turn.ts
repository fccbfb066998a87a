// What asks the person one thing after another: a question opens when the one
// before it has been answered, whoever asked.

let last: Promise<unknown> = Promise.resolve();

/** Runs act when everything that came before it is over. */
export function inTurn<T>(act: () => Promise<T>): Promise<T> {
  const turn = last.then(act);
  last = turn.catch(() => undefined);
  return turn;
}
