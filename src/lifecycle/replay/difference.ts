/**
 * The results of a replay: decisions that would differ, and questions that the record cannot
 * answer.
 */

/**
 * `bad`: a healthy machine would fail. `good`: a machine would not fail, or a stuck one would be
 * found sooner. `even`: neither better nor worse.
 */
type Weight = 'good' | 'bad' | 'even';

interface Kind {
  weight: Weight;
  /** The texts after a count, for example "boots not given up" after "9". */
  one: string;
  many: string;
}

const kind = (weight: Weight, one: string, many: string): Kind => ({ weight, one, many });

/**
 * The names are on the wire. `spared`: the rule would not have acted. `kept` and `lost`: a late
 * boot would have been rescued, or would have come too late for that.
 */
export const differenceKinds = {
  boot_given_up: kind('bad', 'boot given up although it arrived', 'boots given up although they arrived'),
  boot_lost: kind('bad', 'boot that arrives too late to be rescued', 'boots that arrive too late to be rescued'),
  boot_spared: kind('good', 'boot not given up', 'boots not given up'),
  boot_kept: kind('good', 'late boot rescued', 'late boots rescued'),
  boot_cut_short: kind(
    'even',
    'boot given up before something else ended it',
    'boots given up before something else ended them',
  ),
  stuck_sooner: kind('good', 'stuck boot found sooner', 'stuck boots found sooner'),
  stuck_later: kind('even', 'stuck boot found later', 'stuck boots found later'),
  late_sooner: kind(
    'even',
    'late boot, rescued in the end, given up sooner',
    'late boots, rescued in the end, given up sooner',
  ),
  late_later: kind(
    'even',
    'late boot, rescued in the end, given up later',
    'late boots, rescued in the end, given up later',
  ),
  ready_sooner: kind('even', 'machine that a rule makes ready sooner', 'machines that a rule makes ready sooner'),
  ready_later: kind('even', 'machine that a rule makes ready later', 'machines that a rule makes ready later'),
  ready_instead: kind('even', 'machine made ready instead of given up', 'machines made ready instead of given up'),
  silence_spared: kind('good', 'silent machine not declared offline', 'silent machines not declared offline'),
  offline_sooner: kind('even', 'machine declared offline sooner', 'machines declared offline sooner'),
  offline_later: kind('even', 'machine declared offline later', 'machines declared offline later'),
  absent_given_up: kind(
    'bad',
    'absent machine given up although it returned',
    'absent machines given up although they returned',
  ),
  absent_spared: kind('good', 'absent machine not given up', 'absent machines not given up'),
  absent_sooner: kind('even', 'absent machine given up sooner', 'absent machines given up sooner'),
  absent_later: kind('even', 'absent machine given up later', 'absent machines given up later'),
  held: kind('even', 'verdict held back by the brake', 'verdicts held back by the brake'),
  not_held: kind('even', 'verdict not held back', 'verdicts not held back'),
  launches_paused: kind('even', 'pause of new launches', 'pauses of new launches'),
  launches_not_paused: kind('even', 'pause of new launches avoided', 'pauses of new launches avoided'),
} as const satisfies Record<string, Kind>;

export type DifferenceKind = keyof typeof differenceKinds;
export const differenceKindNames = Object.keys(differenceKinds) as DifferenceKind[];

export interface Decision {
  /** A status, or the action of the brake. */
  verdict: string;
  /** Null if there would have been nothing to decide: the machine would have kept its status. */
  at: Date | null;
  reason: string;
}

/** A decision that was really made, so it has a time. */
export type RecordedDecision = Decision & { at: Date };

export interface Difference {
  kind: DifferenceKind;
  /** The earlier of the real and the hypothetical decision. */
  at: Date;
  node_id: string;
  node_instance_id: string;
  rule: string;
  was: RecordedDecision;
  would_be: Decision;
  /** False if the record does not prove the hypothetical decision. */
  sure: boolean;
}

type MachineIds = Pick<Difference, 'node_id' | 'node_instance_id'>;

export const differenceOf = (
  { node_id, node_instance_id }: MachineIds,
  kind: DifferenceKind,
  rule: string,
  was: RecordedDecision,
  would_be: Decision,
  sure = true,
): Difference => ({
  kind,
  at: would_be.at && would_be.at < was.at ? would_be.at : was.at,
  node_id,
  node_instance_id,
  rule,
  was,
  would_be,
  sure,
});

/**
 * The names are on the wire. `told_silences` are verdicts of silence that an observe-only pool
 * recorded without enforcing them.
 */
export const unknownKinds = {
  beats:
    'Single heartbeats are not recorded, so it is unknown whether these machines would have become ready at their new deadline.',
  kept: 'Something other than the policy decided these (maintenance, a hold, an operator or the provider), and might do so again.',
  moved: 'The deadline of these boots differed from the policy in force; the reason is not recorded.',
  short_silences:
    'Silences below the former threshold were not recorded, so it is unknown how many of them a lower threshold would catch.',
  returned:
    'A machine that went offline cannot return at once, so it is unknown whether its heartbeats resumed before the new threshold.',
  told_silences: 'In an observe-only pool a silent machine keeps its status, so its return is not recorded.',
  learned: 'Boots with a learned budget keep it; all others get the fixed one. A replay does not learn budgets.',
  other_budgets: 'The budgets for queueing, draining and releasing are not replayed.',
  observed: 'In an observe-only pool rules only record verdicts, so none of these verdicts would have been enforced.',
  cut_boots: 'The history is too long to replay at once: older boots are left out.',
  cut_changes: 'The history is too long to replay at once: older verdicts are left out.',
} as const satisfies Record<string, string>;

export type UnknownKind = keyof typeof unknownKinds;
export const unknownKindNames = Object.keys(unknownKinds) as UnknownKind[];

export interface Unknown {
  kind: UnknownKind;
  node_id?: string;
}

/** The result for one recorded item. Undefined: nothing would differ. */
export type ReplayOutcome = { difference: Difference } | { unknown: Unknown } | undefined;
