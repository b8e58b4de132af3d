/**
 * Conditions that select rows by their ids. With one id the statement is prepared. With a list it
 * is not: PostgreSQL assumes ten elements for an unknown list, estimates the generic plan as more
 * expensive, and would plan each execution anyway.
 */
export interface ByIds {
  /** A condition on the column. */
  which: string;
  value: unknown;
  how: { often: boolean };
}

export const byIds = (column: string, parameter: `$${number}`, ids: readonly unknown[]): ByIds =>
  ids.length === 1
    ? { which: `${column} = ${parameter}`, value: ids[0], how: { often: true } }
    : { which: `${column} = any(${parameter})`, value: ids, how: { often: false } };

/**
 * The same for lists of any length, in a prepared statement. The subquery hides the list from the
 * planner, which then assumes ten elements and looks each up by its key. A plan that was made while
 * the table was small scans the table at most once, never once per element.
 */
export const anyOf = (column: string, list: `$${number}::${string}[]`): string =>
  `${column} in (select unnest((select ${list})))`;
