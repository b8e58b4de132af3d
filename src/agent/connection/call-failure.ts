/**
 * Describes why a call to the control plane failed, and in which layer, in the terms of `doctor`
 * and the timeline.
 */
import { errorName, faultOfError, type PathFaultCode, pathFaults } from '../../contract/errors/path-faults.ts';
import { errorText, isFields, numberOf, textOf } from '../state/shape.ts';

export interface CallFailure {
  /** The name of the call. */
  call: string;
  /** The owner according to the error catalogue. */
  owner_layer: string;
  /**
   * The narrowest layer: dns, tcp, tls, ca, ingress (a stranger answered), or the one that the
   * server's problem names.
   */
  layer: string;
  code: string;
  /** Null if there was no answer. */
  status: number | null;
  detail: string;
  retry_after_seconds: number | null;
  deadline_at: string | null;
  /** The last log line that the server kept although it refused the call. */
  acknowledged_seq?: number;
}

const unanswered = { status: null, retry_after_seconds: null, deadline_at: null };

const ofFault = (call: string, code: PathFaultCode, detail: string): CallFailure => {
  const { owner_layer, detail_layer } = pathFaults[code];
  return { call, owner_layer, layer: detail_layer, code, detail, ...unanswered };
};

export function failureOfError(call: string, error: unknown): CallFailure {
  const name = errorName(error);
  const detail = errorText(error);
  return ofFault(
    call,
    faultOfError(name ?? ''),
    name === null || detail.includes(name) ? detail : `${name}: ${detail}`,
  );
}

/** Nothing came back in time; `connected` says whether there was a connection. */
export function failureOfSilence(call: string, connected: boolean, seconds: number): CallFailure {
  return ofFault(call, connected ? 'no_answer' : 'tcp_unreachable', `no answer within ${seconds} s`);
}

/**
 * A reply that is neither the expected one nor a problem of ours: a proxy, a login page, another
 * service on our port.
 */
export function failureOfStranger(call: string, status: number, text: string): CallFailure {
  const detail = `answered ${status} with something that is not ours: ${text.slice(0, 120)}`;
  return { ...ofFault(call, 'ingress_stranger', detail), status };
}

export function failureOfProblem(call: string, status: number, body: unknown): CallFailure | null {
  if (!isFields(body) || typeof body.code !== 'string' || typeof body.owner_layer !== 'string') return null;
  return {
    call,
    owner_layer: body.owner_layer,
    layer: textOf(body.detail_layer) ?? body.owner_layer,
    code: body.code,
    status,
    detail: textOf(body.detail) ?? '',
    retry_after_seconds: numberOf(body.retry_after_seconds),
    deadline_at: timeOf(body.deadline_at),
    ...(typeof body.acknowledged_seq === 'number' && { acknowledged_seq: body.acknowledged_seq }),
  };
}

/** Returns null for an invalid time, which would count as passed in every comparison. */
function timeOf(value: unknown): string | null {
  const text = textOf(value);
  return text === null || Number.isNaN(Date.parse(text)) ? null : text;
}

const transientStatus = new Set([408, 423, 425, 429]);

/** Whether the same call may succeed later. An answer from a stranger is never final. */
export function isTransient({ status, layer }: CallFailure): boolean {
  return status === null || layer === 'ingress' || status >= 500 || transientStatus.has(status);
}

export const describeFailure = ({ layer, code, detail }: CallFailure) =>
  `${layer}/${code}${detail ? `: ${detail}` : ''}`;
