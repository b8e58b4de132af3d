/** What a dialog is told about something that a person may do: its words, what it wants to know, how it looks ahead, how it is done. */
import type { ReactNode } from 'react';
import type { AllocationStatus, NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import type { ExtraName } from './words.ts';

/** As the wire names them. */
export interface Extras {
  seconds?: number;
  drain_then?: 'hold' | 'retire';
  /** Of the key that the look ahead showed. */
  fingerprint?: string;
}

/** What would come of it, as the server says without doing it. */
export interface Foresight {
  says: string;
  leads?:
    | { of: 'node'; from: NodeStatus; to: NodeStatus }
    | { of: 'allocation'; from: AllocationStatus; to: AllocationStatus };
  deadline_at?: string | null;
  /** accept-key: sent along, so that no other key is accepted than the one shown. */
  fingerprint?: string;
}

export interface Outcome {
  /** In a few words, for the notice that passes by. */
  says: string;
  /** It has only begun: nobody should read it as done. */
  begun?: boolean;
  /** Shown once; the dialog stays open until it has been read. */
  enrollment_token?: string | undefined;
}

export interface Action {
  title: string;
  /** What will happen, for somebody who has not done it before. */
  says: ReactNode;
  button: string;
  /** Takes something away. */
  destructive?: boolean;
  /** False where the server keeps none. */
  takesReason?: boolean;
  /** It is refused without a reason. */
  needsReason?: boolean;
  asks?: readonly ExtraName[];
  foresee?: (extras: Extras) => Promise<Foresight>;
  run: (asked: Extras & { reason: string | undefined }, idempotency_key: string) => Promise<Outcome>;
}

export async function andSay(says: string, doing: Promise<unknown>): Promise<Outcome> {
  await doing;
  return { says };
}

/** The wire wants a reason for a look ahead as well, and keeps none of it. */
export const lookingAhead = { reason: 'to see what would come of it', dry_run: true } as const;
