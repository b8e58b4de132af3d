/**
 * Rows by their ids, as the database plans it best. By one id a statement is planned once for each connection. By a list it is planned
 * anew each time, whatever it is told: of a list that it has not seen it expects ten, and so takes a plan for any list to be the dearer one.
 */
export interface ByIds {
  /** A condition on the column that it was made for. */
  which: string;
  value: unknown;
  how: { often: boolean };
}

export const byIds = (column: string, parameter: `$${number}`, ids: readonly unknown[]): ByIds =>
  ids.length === 1
    ? { which: `${column} = ${parameter}`, value: ids[0], how: { often: true } }
    : { which: `${column} = any(${parameter})`, value: ids, how: { often: false } };

/**
 * The same for lists of any length, planned once for each connection: the list is hidden from the planner, who expects ten whatever it holds
 * and looks each up by its key. Also one that was planned while the table was small reads it at most once, and never once for each entry.
 */
export const anyOf = (column: string, list: `$${number}::${string}[]`): string =>
  `${column} in (select unnest((select ${list})))`;
