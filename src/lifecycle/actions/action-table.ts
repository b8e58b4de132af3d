/** What a row of a table of actions says, and how a table is asked. Pure. */

/** Whose operators may do it: those of the tenant that it belongs to as well, or only those of the whole fleet. */
export type ActionOwner = 'tenant' | 'fleet';

export interface ActionRow<Status extends string, Subject> {
  /** What it does, in words for the button's caption. */
  does: string;
  for: ActionOwner;
  from: readonly Status[];
  /** Why not in a status that is not in `from`, where there is more to say than which statuses it needs. */
  elsewhere?: Partial<Record<Status, string>>;
  /** Besides the status; answers why not, for a person. */
  unless?(subject: Subject): string | null;
}

export type ActionTable<Name extends string, Status extends string, Subject> = Record<Name, ActionRow<Status, Subject>>;

export interface Offer<Name extends string> {
  action: Name;
  does: string;
  open: boolean;
  why_not: string | null;
}

/** Null where it is open. */
export function whyNot<Status extends string, Subject extends { status: Status }>(
  { from, elsewhere, unless }: ActionRow<Status, Subject>,
  subject: Subject,
): string | null {
  if (from.includes(subject.status)) return unless?.(subject) ?? null;
  return elsewhere?.[subject.status] ?? `It is ${subject.status}; this needs ${from.join(', ')}.`;
}

/** Whoever looks at what is offered. */
export interface Onlooker {
  role: 'viewer' | 'operator' | 'admin';
  /** Null: of the whole fleet. */
  tenant: string | null;
}

/** Null where the state alone decides. */
export function whyNotYou(owner: ActionOwner, { role, tenant }: Onlooker): string | null {
  if (role === 'viewer') return 'Your token may only look; this needs the role operator.';
  return owner === 'fleet' && tenant !== null ? 'Only operators of the whole fleet may do this.' : null;
}

/** Every action of a table with whether it is open now, to this onlooker, and if not, why. */
export function offersOf<Name extends string, Status extends string, Subject extends { status: Status }>(
  table: ActionTable<Name, Status, Subject>,
  subject: Subject,
  onlooker: Onlooker,
): Offer<Name>[] {
  return (Object.keys(table) as Name[]).map((action) => {
    const row = table[action];
    const why_not = whyNotYou(row.for, onlooker) ?? whyNot(row, subject);
    return { action, does: row.does, open: why_not === null, why_not };
  });
}
