/**
 * The shape of an action table: for each action, who may take it and in which statuses, and the
 * reason to show if it is not available.
 */
import type { Visibility } from '../visibility.ts';

/**
 * `tenant`: operators of the owning tenant and of the whole fleet. `fleet`: only operators of the
 * whole fleet.
 */
export type ActionOwner = 'tenant' | 'fleet';

export interface ActionRow<Status extends string, Subject> {
  /** Describes the effect, as the caption of its button. */
  does: string;
  for: ActionOwner;
  from: readonly Status[];
  /**
   * The reason to show in a status outside `from`. Without an entry, the reason lists the statuses
   * in `from`.
   */
  wrongStatusReasons?: Partial<Record<Status, string>>;
  /** Checks preconditions besides the status. Returns the reason if one is not met. */
  whyNot?(subject: Subject): string | null;
}

export type ActionTable<Name extends string, Status extends string, Subject> = Record<Name, ActionRow<Status, Subject>>;

export interface Offer<Name extends string> {
  action: Name;
  does: string;
  open: boolean;
  why_not: string | null;
}

/** Why the action is not available; null if it is. */
export function whyNot<Status extends string, Subject extends { status: Status }>(
  row: ActionRow<Status, Subject>,
  subject: Subject,
): string | null {
  if (row.from.includes(subject.status)) return row.whyNot?.(subject) ?? null;
  return row.wrongStatusReasons?.[subject.status] ?? `It is ${subject.status}; this needs ${row.from.join(', ')}.`;
}

export interface ActionCaller {
  role: 'viewer' | 'operator' | 'admin';
  visibility: Visibility;
}

/** Why the caller may not take actions of this owner; null if the caller may. */
export function whyNotForCaller(owner: ActionOwner, { role, visibility }: ActionCaller): string | null {
  if (role === 'viewer') return 'Your token is read-only; this needs the role operator.';
  return owner === 'fleet' && visibility.kind !== 'fleet' ? 'Only operators of the whole fleet may do this.' : null;
}

/** All actions of a table: whether this caller may take each now, and if not, why. */
export function offersOf<Name extends string, Status extends string, Subject extends { status: Status }>(
  table: ActionTable<Name, Status, Subject>,
  subject: Subject,
  caller: ActionCaller,
): Offer<Name>[] {
  return (Object.keys(table) as Name[]).map((action) => {
    const row = table[action];
    const why_not = whyNotForCaller(row.for, caller) ?? whyNot(row, subject);
    return { action, does: row.does, open: why_not === null, why_not };
  });
}
