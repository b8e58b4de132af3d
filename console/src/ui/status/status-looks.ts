/** The look of each status: tone, icon, letter, and whether it stands out. */
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
} from '@tabler/icons-react';
import type { FindingStatus } from '../../../../src/lifecycle/findings/findings.ts';
import type { ResidueStatus } from '../../../../src/lifecycle/findings/residue.ts';
import type {
  AllocationStatus,
  NodeStatus,
  OperationStatus,
  StepStatus,
} from '../../../../src/lifecycle/model/states.ts';
import type { Tone } from '../theme.ts';

export type StatusIcon = typeof IconCheck;

export interface Look {
  tone: Tone;
  icon: StatusIcon;
  letter: string;
  /** Drawn as a solid fill, so that people see it first. */
  loud?: boolean;
}

export const nodeLooks: Record<NodeStatus, Look> = {
  provisioning: { tone: 'busy', icon: IconUpload, letter: 'P' },
  starting: { tone: 'busy', icon: IconPlayerPlay, letter: 'S' },
  ready: { tone: 'ok', icon: IconCheck, letter: 'R' },
  degraded: { tone: 'warn', icon: IconAlertTriangle, letter: 'D', loud: true },
  offline: { tone: 'off', icon: IconPower, letter: 'O', loud: true },
  failed: { tone: 'bad', icon: IconX, letter: 'F', loud: true },
  draining: { tone: 'leaving', icon: IconArrowBarToDown, letter: 'E' },
  cleaning: { tone: 'leaving', icon: IconTrash, letter: 'C' },
  quarantined: { tone: 'held', icon: IconLock, letter: 'Q', loud: true },
  retired: { tone: 'idle', icon: IconMinus, letter: 'X' },
};

export const allocationLooks: Record<AllocationStatus, Look> = {
  requested: { tone: 'busy', icon: IconClock, letter: 'R' },
  provisioning: { tone: 'busy', icon: IconUpload, letter: 'P' },
  active: { tone: 'ok', icon: IconCheck, letter: 'A' },
  releasing: { tone: 'leaving', icon: IconTrash, letter: 'L' },
  released: { tone: 'idle', icon: IconMinus, letter: 'X' },
  failed: { tone: 'bad', icon: IconX, letter: 'F', loud: true },
  release_failed: { tone: 'bad', icon: IconRefreshAlert, letter: 'E', loud: true },
};

export const operationLooks: Record<OperationStatus, Look> = {
  queued: { tone: 'idle', icon: IconClock, letter: 'Q' },
  running: { tone: 'busy', icon: IconProgress, letter: 'R' },
  succeeded: { tone: 'ok', icon: IconCheck, letter: 'S' },
  failed: { tone: 'bad', icon: IconX, letter: 'F', loud: true },
  cancelling: { tone: 'leaving', icon: IconBan, letter: 'C' },
  cancelled: { tone: 'idle', icon: IconBan, letter: 'X' },
};

export const stepLooks: Record<StepStatus, Look> = {
  pending: { tone: 'idle', icon: IconCircleDashed, letter: 'P' },
  running: { tone: 'busy', icon: IconProgress, letter: 'R' },
  waiting: { tone: 'warn', icon: IconClock, letter: 'W' },
  done: { tone: 'ok', icon: IconCheck, letter: 'D' },
  skipped: { tone: 'idle', icon: IconMinus, letter: 'S' },
  failed: { tone: 'bad', icon: IconX, letter: 'F' },
};

export const findingLooks: Record<FindingStatus, Look> = {
  open: { tone: 'warn', icon: IconAlertTriangle, letter: 'O', loud: true },
  seen: { tone: 'busy', icon: IconEye, letter: 'S' },
  resolved: { tone: 'ok', icon: IconCheck, letter: 'R' },
  repaired: { tone: 'ok', icon: IconTool, letter: 'P' },
  accepted: { tone: 'idle', icon: IconThumbUp, letter: 'A' },
};

export const residueLooks: Record<ResidueStatus, Look> = {
  open: { tone: 'warn', icon: IconAlertTriangle, letter: 'O', loud: true },
  gone: { tone: 'ok', icon: IconCheck, letter: 'G' },
  adopted: { tone: 'idle', icon: IconUser, letter: 'A' },
};
