/**
 * All statuses, and how each can be left. The API, console, CLI, docs and model checker read these
 * tables.
 */

/**
 * - moving: has a deadline and an automatic exit
 * - serving: supervised by heartbeats or through its provider
 * - parked: has a verdict, an owner and an available action, and is verified at least hourly
 * - terminal: has no exit
 */
export type StatusClass = 'moving' | 'serving' | 'parked' | 'terminal';

export type BudgetPhase = 'queue' | 'provision' | 'start' | 'offline' | 'drain' | 'release' | 'rescue' | 'clean';

export interface StatusDeclaration {
  class: StatusClass;
  /**
   * The phase whose budget sets `deadline_at` when the status is entered. Required for moving
   * statuses.
   */
  deadline: BudgetPhase | null;
  /** A fenced node gets no new allocation, and no tasks except `release.*`. */
  fenced: boolean;
  /** One sentence for people. */
  means: string;
}

export const nodeStatuses = {
  provisioning: {
    class: 'moving',
    deadline: 'provision',
    fenced: false,
    means: 'Coming up; not registered yet.',
  },
  starting: { class: 'moving', deadline: 'start', fenced: false, means: 'Registered; starting up.' },
  ready: { class: 'serving', deadline: null, fenced: false, means: 'Up and serving.' },
  degraded: {
    class: 'serving',
    deadline: null,
    fenced: false,
    means: 'Serving, but it reports errors or answers only probes.',
  },
  offline: {
    class: 'moving',
    deadline: 'offline',
    fenced: false,
    means: 'Silent; it can return until its deadline.',
  },
  failed: {
    class: 'moving',
    deadline: 'rescue',
    fenced: true,
    means: 'Failed by a verdict; it can return within its rescue window.',
  },
  draining: { class: 'moving', deadline: 'drain', fenced: true, means: 'Gets no new work; waits until it is empty.' },
  cleaning: { class: 'moving', deadline: 'clean', fenced: true, means: 'Being cleaned or destroyed, with proof.' },
  quarantined: { class: 'parked', deadline: null, fenced: true, means: 'Out of service until a person decides.' },
  retired: { class: 'terminal', deadline: null, fenced: true, means: 'Gone, with proof.' },
} as const satisfies Record<string, StatusDeclaration>;

export type NodeStatus = keyof typeof nodeStatuses;

export const allocationStatuses = {
  requested: { class: 'moving', deadline: 'queue', fenced: false, means: 'Waiting for a machine.' },
  provisioning: { class: 'moving', deadline: 'provision', fenced: false, means: 'Its machine is coming up.' },
  active: { class: 'serving', deadline: null, fenced: false, means: 'In use.' },
  releasing: {
    class: 'moving',
    deadline: 'release',
    fenced: false,
    means: 'Being released; its machine is cleaned or destroyed.',
  },
  released: {
    class: 'terminal',
    deadline: null,
    fenced: false,
    means: 'Released, with a proof or with residue on record.',
  },
  failed: {
    class: 'moving',
    deadline: 'rescue',
    fenced: false,
    means: 'Has no working machine; a rescue is possible within its window.',
  },
  release_failed: {
    class: 'parked',
    deadline: null,
    fenced: false,
    means: 'Its release failed and is retried until it succeeds.',
  },
} as const satisfies Record<string, StatusDeclaration>;

export type AllocationStatus = keyof typeof allocationStatuses;

export const operationStatuses = ['queued', 'running', 'succeeded', 'failed', 'cancelling', 'cancelled'] as const;
export type OperationStatus = (typeof operationStatuses)[number];

export const stepStatuses = ['pending', 'running', 'waiting', 'done', 'skipped', 'failed'] as const;
export type StepStatus = (typeof stepStatuses)[number];
/** A step that its operation's cancellation ended is stored as failed, without an error. */
export const shownStepStatuses = [...stepStatuses, 'cancelled'] as const;
export type ShownStepStatus = (typeof shownStepStatuses)[number];

export const taskStatuses = ['queued', 'leased', 'succeeded', 'failed'] as const;
export type TaskStatus = (typeof taskStatuses)[number];

export const nodeStatusNames = Object.keys(nodeStatuses) as NodeStatus[];
export const allocationStatusNames = Object.keys(allocationStatuses) as AllocationStatus[];

/** All statuses except `retired`. */
export const liveNodeStatuses: readonly NodeStatus[] = nodeStatusNames.filter(
  (name) => nodeStatuses[name].class !== 'terminal',
);

export const isFenced = (status: NodeStatus): boolean => nodeStatuses[status].fenced;

/** In these statuses an allocation holds its node, and no other allocation can have it. */
export const holdingStatuses = [
  'provisioning',
  'active',
  'releasing',
  'release_failed',
  'failed',
] as const satisfies AllocationStatus[];

export type Occupancy = 'free' | 'reserved' | 'occupied' | 'cleanup';

const occupancyByStatus: Record<AllocationStatus, Occupancy> = {
  requested: 'reserved',
  provisioning: 'reserved',
  failed: 'reserved',
  active: 'occupied',
  releasing: 'cleanup',
  release_failed: 'cleanup',
  released: 'free',
};

/**
 * The occupancy of a node, computed on every read and never stored. A node with residue of a forced
 * release is not free.
 */
export const occupancyOf = (allocation: AllocationStatus | null, residue = false): Occupancy => {
  const occupancy = allocation === null ? 'free' : occupancyByStatus[allocation];
  return occupancy === 'free' && residue ? 'cleanup' : occupancy;
};

/** The occupancy to display: null for a free node that no allocation can get. */
export const displayOccupancy = ({
  status,
  occupancy,
}: {
  status: NodeStatus;
  occupancy: Occupancy;
}): Occupancy | null => (status !== 'ready' && occupancy === 'free' ? null : occupancy);
