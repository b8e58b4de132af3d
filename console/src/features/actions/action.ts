/** Describes an action to the dialog: its texts, fields, prediction and call. */
import type { ReactNode } from 'react';
import type { AllocationStatus, NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import type { ExtraName } from './words.ts';

/** The fields that some actions need besides a reason, named as on the wire. */
export interface Extras {
  seconds?: number;
  drain_then?: 'hold' | 'retire';
  /** The fingerprint of the key that the prediction showed. */
  fingerprint?: string;
}

/** The result that the server predicts in a dry run of the action. */
export interface Prediction {
  text: string;
  transition?:
    | { subject: 'node'; from: NodeStatus; to: NodeStatus }
    | { subject: 'allocation'; from: AllocationStatus; to: AllocationStatus };
  deadline_at?: string | null;
  /** For accept-key: sent with the action, so that only the key that was shown is accepted. */
  fingerprint?: string;
}

export interface Outcome {
  /** The text of the notice. */
  notice: string;
  /** Whether the action has started an operation that has not finished yet. */
  isRunning?: boolean;
  /** Shown once; the dialog stays open until you close it. */
  enrollment_token?: string | undefined;
}

export interface Action {
  title: string;
  /** Explains the action to a person who uses it for the first time. */
  description: ReactNode;
  button: string;
  /** Shown in red. */
  destructive?: boolean;
  /** False if the server stores no reason. */
  takesReason?: boolean;
  /** Whether the server refuses the action without a reason. */
  needsReason?: boolean;
  extraFields?: readonly ExtraName[];
  predict?: (extras: Extras) => Promise<Prediction>;
  run: (input: Extras & { reason: string | undefined }, idempotency_key: string) => Promise<Outcome>;
}

/** Waits for the request, then returns the notice to show. */
export async function awaitWithNotice(notice: string, request: Promise<unknown>): Promise<Outcome> {
  await request;
  return { notice };
}

/** The API requires a reason for a dry run too, but does not store that reason. */
export const dryRun = { reason: 'dry run', dry_run: true } as const;
