/** The look of each status: tone, icon, and whether it stands out. */

import type { FindingStatus } from '../../../../src/lifecycle/findings/findings.ts';
import type { ResidueStatus } from '../../../../src/lifecycle/findings/residue.ts';
import type {
  AllocationStatus,
  NodeStatus,
  OperationStatus,
  ShownStepStatus,
} from '../../../../src/lifecycle/model/states.ts';
import {
  IconAlertTriangle,
  IconArrowBarToDown,
  IconBan,
  IconCheck,
  IconCircleDashed,
  IconClock,
  IconEye,
  IconLock,
  IconMinus,
  IconPlayerPlay,
  IconPower,
  IconProgress,
  IconRefreshAlert,
  IconThumbUp,
  IconTool,
  IconTrash,
  IconUpload,
  IconUser,
  IconX,
} from '../icons.generated.ts';
import type { Tone } from '../theme.ts';

export type StatusIcon = typeof IconCheck;

export interface Look {
  tone: Tone;
  icon: StatusIcon;
  /** Drawn as a solid fill, so that people see it first. */
  isSolid?: boolean;
}

export const nodeLooks: Record<NodeStatus, Look> = {
  provisioning: { tone: 'busy', icon: IconUpload },
  starting: { tone: 'busy', icon: IconPlayerPlay },
  ready: { tone: 'ok', icon: IconCheck },
  degraded: { tone: 'warn', icon: IconAlertTriangle, isSolid: true },
  offline: { tone: 'off', icon: IconPower, isSolid: true },
  failed: { tone: 'bad', icon: IconX, isSolid: true },
  draining: { tone: 'leaving', icon: IconArrowBarToDown },
  cleaning: { tone: 'leaving', icon: IconTrash },
  quarantined: { tone: 'held', icon: IconLock, isSolid: true },
  retired: { tone: 'idle', icon: IconMinus },
};

export const allocationLooks: Record<AllocationStatus, Look> = {
  requested: { tone: 'busy', icon: IconClock },
  provisioning: { tone: 'busy', icon: IconUpload },
  active: { tone: 'ok', icon: IconCheck },
  releasing: { tone: 'leaving', icon: IconTrash },
  released: { tone: 'idle', icon: IconMinus },
  failed: { tone: 'bad', icon: IconX, isSolid: true },
  release_failed: { tone: 'bad', icon: IconRefreshAlert, isSolid: true },
};

export const operationLooks: Record<OperationStatus, Look> = {
  queued: { tone: 'idle', icon: IconClock },
  running: { tone: 'busy', icon: IconProgress },
  succeeded: { tone: 'ok', icon: IconCheck },
  failed: { tone: 'bad', icon: IconX, isSolid: true },
  cancelling: { tone: 'leaving', icon: IconBan },
  cancelled: { tone: 'idle', icon: IconBan },
};

export const stepLooks: Record<ShownStepStatus, Look> = {
  pending: { tone: 'idle', icon: IconCircleDashed },
  running: { tone: 'busy', icon: IconProgress },
  waiting: { tone: 'warn', icon: IconClock },
  done: { tone: 'ok', icon: IconCheck },
  skipped: { tone: 'idle', icon: IconMinus },
  failed: { tone: 'bad', icon: IconX },
  cancelled: { tone: 'idle', icon: IconBan },
};

export const findingLooks: Record<FindingStatus, Look> = {
  open: { tone: 'warn', icon: IconAlertTriangle, isSolid: true },
  seen: { tone: 'busy', icon: IconEye },
  resolved: { tone: 'ok', icon: IconCheck },
  repaired: { tone: 'ok', icon: IconTool },
  accepted: { tone: 'idle', icon: IconThumbUp },
};

export const residueLooks: Record<ResidueStatus, Look> = {
  open: { tone: 'warn', icon: IconAlertTriangle, isSolid: true },
  gone: { tone: 'ok', icon: IconCheck },
  adopted: { tone: 'idle', icon: IconUser },
};

const unknownLook: Look = { tone: 'idle', icon: IconCircleDashed };

/** A newer server may send a status that these tables do not have. */
export const lookOf = <Status extends string>(looks: Readonly<Record<Status, Look>>, status: Status): Look =>
  looks[status] ?? unknownLook;
