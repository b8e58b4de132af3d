/**
 * What can be wrong on the way to the control plane, or with a machine behind it, when no answer of ours says so. Doctor, the
 * agent and the CLI use the same codes; they have no HTTP status because nobody sends them. `docs/reference/errors.md` has them too.
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
    title: 'The name does not resolve',
    owner_layer: 'transport',
    detail_layer: 'dns',
    cause:
      'This machine has no address for the host of the server: it is mistyped, not published, or the resolver is down.',
    remedy:
      'Look at the name in --server, then at this machine’s resolver (/etc/resolv.conf, /etc/hosts) and the zone.',
  },
  tcp_refused: {
    title: 'Nothing listens there',
    owner_layer: 'transport',
    detail_layer: 'tcp',
    cause: 'The host answered, but no program takes connections on that port.',
    remedy: 'Start the server or the proxy in front of it, or correct the port.',
  },
  tcp_unreachable: {
    title: 'The host cannot be reached',
    owner_layer: 'transport',
    detail_layer: 'tcp',
    cause: 'No connection came about: there is no route, a firewall drops it, it was cut off, or the host is down.',
    remedy: 'Look at the route and the firewalls between this machine and that address and port.',
  },
  tls_failed: {
    title: 'TLS does not come about',
    owner_layer: 'transport',
    detail_layer: 'tls',
    cause: 'What listens there does not speak TLS, or not a version or cipher that both sides know.',
    remedy:
      'Use http:// if it is meant to be plain; else look at the certificate and TLS settings of whatever ends TLS there.',
  },
  ca_untrusted: {
    title: 'Nobody we trust vouches for the certificate',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'Its chain does not end at an authority that this machine trusts, or a link of the chain is missing.',
    remedy: 'Name the authority’s certificate with --ca FILE (SLIPWAY_CA), or let the server send its whole chain.',
  },
  certificate_expired: {
    title: 'The certificate is not valid now',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'It has expired or is not valid yet, or the clock of this machine is wrong.',
    remedy: 'Renew the certificate; if it is in date, correct the clock.',
  },
  certificate_name_mismatch: {
    title: 'The certificate is for another name',
    owner_layer: 'transport',
    detail_layer: 'ca',
    cause: 'It is trusted, but does not name the host that was called.',
    remedy: 'Call the server by a name that is in its certificate, or have one made for this name.',
  },
  ingress_stranger: {
    title: 'Something that is not Slipway answers',
    owner_layer: 'transport',
    detail_layer: 'ingress',
    cause: 'A proxy’s error page, a sign-in page or another program answered in place of the server.',
    remedy: 'Look at the rules and the upstream of the proxy in front of the server; it must pass /healthz and /v1 on.',
  },
  ingress_other_installation: {
    title: 'Another Slipway answers',
    owner_layer: 'transport',
    detail_layer: 'ingress',
    cause: 'What answers could not sign with a key of the installation that this machine belongs to.',
    remedy:
      'Point the name or the proxy at the right server; if the installation was made anew, enrol this machine again.',
  },
  no_answer: {
    title: 'The connection was taken, and nothing was answered',
    owner_layer: 'control_plane',
    detail_layer: 'control_plane',
    cause: 'The server, or what stands in front of it, hangs or is overloaded.',
    remedy: 'Look at the server’s log and load, and at the upstream of the proxy in front of it.',
  },
  agent_not_enrolled: {
    title: 'The agent here has no credential',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'No agent has registered from this directory, or what it kept is gone.',
    remedy: 'Start the agent with a join or enrolment token; for a machine that is known, re-enroll it first.',
  },
  never_registered: {
    title: 'No machine has registered for the node',
    owner_layer: 'auth',
    detail_layer: 'credential',
    cause: 'The node’s instance exists, but its agent never showed its enrolment token here.',
    remedy: 'Run `slipway agent doctor` on the machine; it says how far it comes.',
  },
  boot_failed: {
    title: 'The machine ended before it could register',
    owner_layer: 'node',
    detail_layer: 'boot',
    cause: 'Bringing it up came to an end of its own: its set-up failed, a prerequisite is missing, or it crashed.',
    remedy:
      '`slipway logs ID` has the last lines it wrote. Mend what they name in the pool’s spec, then retry its allocation.',
  },
  node_retired: {
    title: 'The node is retired',
    owner_layer: 'request',
    detail_layer: 'fence',
    cause: 'Its machine was taken down with proof. Nothing of it is there that could register, beat or answer.',
    remedy: '`slipway timeline ID` says why and by whom; its allocation, if it still wants a machine, can be retried.',
  },
  heartbeat_stale: {
    title: 'The agent is silent',
    owner_layer: 'node',
    detail_layer: 'heartbeat',
    cause: 'No heartbeat came for longer than the node’s stale time.',
    remedy:
      'Run `slipway agent doctor` on the machine: either the agent does not run, or its calls do not get through.',
  },
  task_unclaimed: {
    title: 'The agent beats, but takes no task',
    owner_layer: 'node',
    detail_layer: 'claim',
    cause: 'A ping waited for it and was not claimed in time.',
    remedy: 'Look at the agent’s log for agent-task-next: a proxy that cuts long polls, or work that does not end.',
  },
  result_missing: {
    title: 'The agent took a task, and its answer does not arrive',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'A ping was claimed, but no result of it came in time.',
    remedy: 'Look at the agent’s log for agent-task-result: a proxy that refuses the call, or an agent that hangs.',
  },
  result_unsigned: {
    title: 'The answer is not the agent’s own',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'A result came, but not signed with the key that the agent registered with.',
    remedy: 'Find out what else uses this instance’s credential; set the node aside and re-enroll it.',
  },
  ping_refused: {
    title: 'The agent refused a ping',
    owner_layer: 'node',
    detail_layer: 'result',
    cause: 'It took the task and answered that it failed; the sentence says why.',
    remedy: 'Do what its answer says; most often its clock is wrong or it belongs to another installation.',
  },
} as const satisfies Record<string, PathFault>;

export type PathFaultCode = keyof typeof pathFaults;

const dnsErrors = /^(ENOTFOUND|EAI_)/;
const expiredErrors = /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/;
const nameErrors = /^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)/;
const caErrors = /^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH)/;
const tlsErrors = /^(ERR_TLS|ERR_SSL|EPROTO)/;
/** Whoever speaks, it is not HTTP. */
const notHttp = /^HPE_/;

/** The name of an operating system's, a resolver's or a TLS library's error, as one of ours. */
export function faultOfError(name: string): PathFaultCode {
  if (dnsErrors.test(name)) return 'dns_unresolved';
  if (name === 'ECONNREFUSED') return 'tcp_refused';
  if (expiredErrors.test(name)) return 'certificate_expired';
  if (nameErrors.test(name)) return 'certificate_name_mismatch';
  if (caErrors.test(name)) return 'ca_untrusted';
  if (tlsErrors.test(name)) return 'tls_failed';
  return notHttp.test(name) ? 'ingress_stranger' : 'tcp_unreachable';
}

/** What an error is called: its own name, or that of the innermost cause that has one. */
export function errorName(error: unknown): string | null {
  if (error instanceof AggregateError && error.errors.length > 0) return errorName(error.errors[0]);
  if (!(error instanceof Error)) return null;
  return errorName(error.cause) ?? ('code' in error && typeof error.code === 'string' ? error.code : null);
}
