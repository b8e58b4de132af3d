/** Describes an action to the dialog: its texts, fields, prediction and call. */
import type { ReactNode } from 'react';
import type { AllocationStatus, NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import type { ExtraName } from './words.ts';

/** Named as on the wire. */
export interface Extras {
  seconds?: number;
  drain_then?: 'hold' | 'retire';
  /** The fingerprint of the key that the prediction showed. */
  fingerprint?: string;
}

/** The prediction of the server, which ran the action without effect. */
export interface Prediction {
  says: string;
  leads?:
    | { of: 'node'; from: NodeStatus; to: NodeStatus }
    | { of: 'allocation'; from: AllocationStatus; to: AllocationStatus };
  deadline_at?: string | null;
  /** accept-key: sent along, so that only the key that was shown is accepted. */
  fingerprint?: string;
}

export interface Outcome {
  /** Short text for the notice. */
  says: string;
  /** The operation has only started. */
  begun?: boolean;
  /** Shown once; the dialog stays open until you close it. */
  enrollment_token?: string | undefined;
}

export interface Action {
  title: string;
  /** Explains what happens, for somebody who does it for the first time. */
  says: ReactNode;
  button: string;
  /** Shown in red. */
  destructive?: boolean;
  /** False if the server stores no reason. */
  takesReason?: boolean;
  /** The server refuses it without a reason. */
  needsReason?: boolean;
  asks?: readonly ExtraName[];
  predict?: (extras: Extras) => Promise<Prediction>;
  run: (input: Extras & { reason: string | undefined }, idempotency_key: string) => Promise<Outcome>;
}

export async function thenNotify(says: string, doing: Promise<unknown>): Promise<Outcome> {
  await doing;
  return { says };
}

/** The API requires a reason for a dry run too, and does not store it. */
export const dryRun = { reason: 'dry run', dry_run: true } as const;
