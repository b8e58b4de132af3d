/**
 * Faults of a machine, or of the network path to the control plane. No reply of the server has
 * these codes, so they have no HTTP status. Doctor, the agent and the CLI use them, and
 * `docs/reference/errors.md` lists them too.
 */
import type { OwnerLayer } from './problem.ts';

export interface PathFault {
  title: string;
  owner_layer: OwnerLayer;
  detail_layer: string;
  cause: string;
  remedy: string;
}

export const pathFaults = {
  dns_unresolved: {
    title: 'The host name does not resolve',
    owner_layer: 'transport',
    detail_layer: 'dns',
    cause:
      'This machine cannot resolve the host of the server: the name is mistyped or not published, or the resolver is down.',
    remedy: 'Check the name in --server, then this machine’s resolver (/etc/resolv.conf, /etc/hosts) and the zone.',
  },
  tcp_refused: {
    title: 'Connection refused',
    owner_layer: 'transport',
    detail_layer: 'tcp',
    cause: 'The host answered, but no program listens on that port.',
    remedy: 'Start the server or the proxy in front of it, or correct the port.',
  },
  tcp_unreachable: {
    title: 'The host cannot be reached',
    owner_layer: 'transport',
    detail_layer: 'tcp',
    cause:
      'No connection was made: there is no route, a firewall drops the packets, the connection was reset, or the host is down.',
    remedy: 'Check the route and the firewalls between this machine and that address and port.',
  },
  tls_failed: {
    title: 'TLS handshake failed',
    owner_layer: 'transport',
    detail_layer: 'tls',
    cause: 'The other side does not use TLS, or has no version or cipher in common with this machine.',
    remedy:
      'Use http:// if plain HTTP is intended. Otherwise check the certificate and TLS settings of the server or proxy that terminates TLS.',
  },
  ca_untrusted: {
    title: 'The certificate is not trusted',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'The chain of the certificate does not end at an authority that this machine trusts, or misses a link.',
    remedy:
      'Pass the certificate of the authority with --ca FILE (SLIPWAY_CA), or let the server send its whole chain.',
  },
  certificate_expired: {
    title: 'The certificate is not valid now',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'The certificate has expired or is not valid yet, or the clock of this machine is wrong.',
    remedy: 'Renew the certificate. If it has not expired, correct the clock.',
  },
  certificate_name_mismatch: {
    title: 'The certificate is for another name',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'The certificate is trusted, but does not include the host name that was used.',
    remedy: 'Use a name that is in the certificate, or issue a certificate for this name.',
  },
  ingress_stranger: {
    title: 'Something that is not Slipway answers',
    owner_layer: 'transport',
    detail_layer: 'ingress',
    cause: 'A proxy’s error page, a sign-in page or another program answered in place of the server.',
    remedy: 'Check the rules and the upstream of the proxy in front of the server; it must forward /healthz and /v1.',
  },
  ingress_other_installation: {
    title: 'Another Slipway answers',
    owner_layer: 'transport',
    detail_layer: 'ingress',
    cause: 'The server that answers could not sign with a key of the installation of this machine.',
    remedy:
      'Point the name or the proxy at the right server. If the installation was recreated, enrol this machine again.',
  },
  no_answer: {
    title: 'The connection was accepted, but no answer came',
    owner_layer: 'control_plane',
    detail_layer: 'control_plane',
    cause: 'The server, or the proxy in front of it, hangs or is overloaded.',
    remedy: 'Check the log and load of the server, and the upstream of the proxy in front of it.',
  },
  agent_not_enrolled: {
    title: 'The agent has no credential',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'No agent has registered from this directory, or its stored credential is gone.',
    remedy: 'Start the agent with a join or enrolment token; re-enroll a known machine first.',
  },
  never_registered: {
    title: 'No machine has registered for the node',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'The node’s instance exists, but its agent never presented its enrolment token.',
    remedy: 'Run `slipway agent doctor` on the machine; it shows how far the agent gets.',
  },
  boot_failed: {
    title: 'The machine ended before it could register',
    owner_layer: 'node',
    detail_layer: 'boot',
    cause: 'The boot failed: its set-up failed, a prerequisite is missing, or it crashed.',
    remedy:
      '`slipway logs ID` shows its last lines. Fix the problem in the spec of the pool, then retry the allocation.',
  },
  node_retired: {
    title: 'The node is retired',
    owner_layer: 'request',
    detail_layer: 'fence',
    cause: 'Its machine was torn down with proof and can no longer register, send heartbeats or answer.',
    remedy: '`slipway timeline ID` shows why and by whom. If its allocation still needs a machine, retry it.',
  },
  heartbeat_stale: {
    title: 'The agent is silent',
    owner_layer: 'node',
    detail_layer: 'heartbeat',
    cause: 'No heartbeat arrived for longer than the stale time of the node.',
    remedy:
      'Run `slipway agent doctor` on the machine: either the agent is not running, or its calls do not get through.',
  },
  task_unclaimed: {
    title: 'The agent sends heartbeats, but takes no tasks',
    owner_layer: 'node',
    detail_layer: 'claim',
    cause: 'A ping was queued and not taken in time.',
    remedy: 'Check the log of the agent for agent-task-next: a proxy may cut long polls, or a task does not end.',
  },
  result_missing: {
    title: 'The agent took a task, but its result does not arrive',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'A ping was taken, but no result arrived in time.',
    remedy: 'Check the log of the agent for agent-task-result: a proxy may refuse the call, or the agent hangs.',
  },
  result_unsigned: {
    title: 'The result is not signed by the agent',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'A result arrived, but was not signed with the key the agent registered with.',
    remedy: 'Find out what else uses the credential of this instance, quarantine the node and re-enroll it.',
  },
  ping_refused: {
    title: 'The agent refused a ping',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'The agent took the task and reported a failure; the message says why.',
    remedy:
      'Follow the message. Usually the clock of the machine is wrong, or the agent belongs to another installation.',
  },
} as const satisfies Record<string, PathFault>;

export type PathFaultCode = keyof typeof pathFaults;

const dnsErrors = /^(ENOTFOUND|EAI_)/;
const expiredErrors = /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/;
const nameErrors = /^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)/;
const caErrors = /^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH)/;
const tlsErrors = /^(ERR_TLS|ERR_SSL|EPROTO)/;
/** Errors of the HTTP parser: the other side does not use HTTP. */
const httpErrors = /^HPE_/;

/** Maps an error name of the operating system, resolver or TLS library to one of our codes. */
export function faultOfError(name: string): PathFaultCode {
  if (dnsErrors.test(name)) return 'dns_unresolved';
  if (name === 'ECONNREFUSED') return 'tcp_refused';
  if (expiredErrors.test(name)) return 'certificate_expired';
  if (nameErrors.test(name)) return 'certificate_name_mismatch';
  if (caErrors.test(name)) return 'ca_untrusted';
  if (tlsErrors.test(name)) return 'tls_failed';
  return httpErrors.test(name) ? 'ingress_stranger' : 'tcp_unreachable';
}

/** The code of the innermost cause that has one, or the error's own code; null if there is none. */
export function errorName(error: unknown): string | null {
  if (error instanceof AggregateError && error.errors.length > 0) return errorName(error.errors[0]);
  if (!(error instanceof Error)) return null;
  return errorName(error.cause) ?? ('code' in error && typeof error.code === 'string' ? error.code : null);
}
