/** Turns codes and clauses into text for a page. Pure. */

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** `freeze-evidence` → `Freeze evidence`, `arm_create` → `Arm create`. */
export const humanize = (code: string): string => capitalize(code.replaceAll(/[-_]+/g, ' ').trim());

/** The layer that has to act: `owner: control plane`. */
export const ownerWords = (layer: string): string => `owner: ${layer.replaceAll('_', ' ')}`;

const endMarks = ['.', '!', '?', '…'];

/** The server sends clauses; a page shows them with a capital letter and a full stop. */
export const toSentence = (clause: string): string => {
  const text = capitalize(clause);
  return endMarks.some((mark) => text.endsWith(mark)) ? text : `${text}.`;
};
