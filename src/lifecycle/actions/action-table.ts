/** Tables of actions: the callers and the statuses that each is for, and why not for others. */
import type { Visibility } from '../visibility.ts';

/** `tenant`: operators of the owning tenant too. `fleet`: only operators of the whole fleet. */
export type ActionOwner = 'tenant' | 'fleet';

export interface ActionRow<Status extends string, Subject> {
  /** The caption of its button. */
  does: string;
  for: ActionOwner;
  from: readonly Status[];
  /** Why not in a status outside `from`. By default it lists the statuses in `from`. */
  elsewhere?: Partial<Record<Status, string>>;
  /** Returns why not, for reasons besides the status. */
  unless?(subject: Subject): string | null;
}

export type ActionTable<Name extends string, Status extends string, Subject> = Record<Name, ActionRow<Status, Subject>>;

export interface Offer<Name extends string> {
  action: Name;
  does: string;
  open: boolean;
  why_not: string | null;
}

/** Null if the action is available. */
export function whyNot<Status extends string, Subject extends { status: Status }>(
  { from, elsewhere, unless }: ActionRow<Status, Subject>,
  subject: Subject,
): string | null {
  if (from.includes(subject.status)) return unless?.(subject) ?? null;
  return elsewhere?.[subject.status] ?? `It is ${subject.status}; this needs ${from.join(', ')}.`;
}

export interface ActionCaller {
  role: 'viewer' | 'operator' | 'admin';
  visibility: Visibility;
}

/** Null if the caller may take it. */
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
