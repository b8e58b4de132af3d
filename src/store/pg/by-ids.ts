/**
 * Conditions that select rows by their ids. A statement with one id is prepared. A statement with a
 * list is not: PostgreSQL assumes ten elements for an unknown list, estimates the generic plan as
 * more expensive, and would plan each execution anyway.
 */
export interface ByIds {
  condition: string;
  value: unknown;
  options: { prepared: boolean };
}

export const byIds = (column: string, parameter: `$${number}`, ids: readonly unknown[]): ByIds =>
  ids.length === 1
    ? { condition: `${column} = ${parameter}`, value: ids[0], options: { prepared: true } }
    : { condition: `${column} = any(${parameter})`, value: ids, options: { prepared: false } };

/**
 * A condition for a list of any length in a prepared statement. The subquery hides the list from
 * the planner, which then assumes ten elements and looks each up by its key. A plan that was made
 * while the table was small scans the table at most once, never once per element.
 */
export const anyOf = (column: string, list: `$${number}::${string}[]`): string =>
  `${column} in (select unnest((select ${list})))`;
