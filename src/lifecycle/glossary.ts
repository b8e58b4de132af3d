/**
 * The words of the product, with one meaning each. `docs/glossary.md` and the console's tooltips
 * are generated from this table. Every term of a screen, an error code or a folder has an entry
 * here; statuses are described in model/states.ts.
 */

export interface GlossaryEntry {
  /** At most 30 words. */
  means: string;
  /** Words that we used before and no longer use for this. */
  formerly?: readonly string[];
}

const entries = {
  action: {
    means: 'Something that an operator can do with a node or an allocation. A table lists who may do it and when.',
  },
  agent: { means: 'Our program on a machine. It registers, sends heartbeats, runs tasks and ships logs.' },
  agentless: {
    means: 'Supervised through its provider, because no agent runs on the machine.',
    formerly: ['observed'],
  },
  allocation: { means: "A tenant's claim on one machine, from the request until the machine is given back." },
  attempt: { means: 'One try of an operation, or one instance of a machine that comes up again.' },
  attention: { means: 'The list of everything that waits for a person, worst first.' },
  audit: { means: 'The record of who changed or tried to change what, and why.' },
  backup: { means: 'An encrypted copy of the whole database, from one moment. Only the key file opens it.' },
  batch: {
    means: 'Many requests that one statement or one call serves.',
    formerly: ['gathered', 'gatherer'],
  },
  bisect: { means: 'Finding the one bad row of a batch by halving the batch.', formerly: ['by-halves'] },
  boot: { means: 'The time from launching a machine until it is ready, with its stages.' },
  brake: {
    means: 'Holds verdicts back when so many machines fail at once that we are the likelier cause.',
    formerly: ['sift'],
  },
  budget: {
    means: 'How long a phase may take before a rule gives a verdict. Set by the pool, or learned from its boots.',
  },
  caller: { means: 'The person, program, agent or relay that made a request.', formerly: ['asker', 'asked'] },
  canary: { means: 'The first machines of a recovery. The others follow only if all canaries recover.' },
  certificate: {
    means: 'A signed file that shows what ran for an allocation, when it was released, and by which proofs.',
  },
  checkpoint: { means: 'A signed statement about all evidence up to one row.' },
  claim: {
    means:
      "A tenant's request for a machine. Error codes and causes that begin with claim keep the former word for a report.",
  },
  conformance: { means: 'The tests that every driver must pass, whatever its provider.' },
  'counter-test': {
    means: 'A test that breaks the product on purpose and expects the test of that behaviour to fail.',
  },
  credential: { means: 'The secret by which one instance of a machine proves who it is.' },
  cursor: { means: 'The position in a list or a stream from which the next page continues.' },
  deadline: { means: 'The time at which a rule gives a verdict, unless something else happens first.' },
  decider: {
    means: 'A pure function that makes one decision of the server. A counter-test replaces it with a broken one.',
  },
  diagnosis: {
    means: 'What lines of a console or a log say about the cause of a failure. It explains; it never decides.',
  },
  diagnostics: {
    means:
      'Processes, log lines and console output, collected from a machine and its provider on request or before a teardown.',
  },
  doctor: {
    means:
      'The command that checks each layer between you, the server and a machine, and names the first one that fails.',
  },
  drain: { means: 'To give a machine or a stopping server no new work, and wait until it has none.' },
  drift: { means: 'A difference between our records and reality: rows, machines or proofs that do not agree.' },
  driver: { means: 'The code that launches, inspects, tears down and proves machines of one provider.' },
  engine: { means: 'The part that runs operations durably: it records each step and resumes after a crash.' },
  enrolment: { means: 'The first registration of a machine, by a token that works once.' },
  epoch: { means: 'The number of one start of a replica. Writes by an earlier epoch are refused.' },
  era: {
    means: 'One life of the database, until it is restored or a failover replaces it. Facts of a later era come later.',
  },
  evidence: { means: 'Append-only facts: what happened, when, who says so, and which ids it concerns.' },
  explanation: { means: 'Why a machine is where it is, what happens next and when, and what you can do.' },
  external: { means: 'Provided by somebody else: no driver launches the machines of an external pool; they join.' },
  fact: { means: 'One row of evidence.' },
  fence: { means: 'To refuse everything that an earlier instance of a machine still sends.' },
  finding: {
    means: 'A difference, a repeated failure or a slowdown. Opened when seen twice, closed when it is settled.',
  },
  fleet: { means: 'All machines of an installation.' },
  generation: { means: 'The version number of a pool document. Each change makes the next one.' },
  goodbye: { means: 'The last message of a machine that stops on purpose.' },
  heartbeat: {
    means:
      'The message that a machine sends at an interval to show that it is alive. Error codes and evidence kinds with beat keep the former word.',
    formerly: ['beat'],
  },
  hold: { means: 'A period in which the brake or a maintenance window keeps verdicts from being written.' },
  holder: { means: 'The allocation that has a machine now.' },
  idempotency: { means: 'Sending the same request twice has the effect of one; the idempotency key marks the repeat.' },
  inspect: { means: 'To ask a provider what it shows of a machine.', formerly: ['looking'] },
  installation: { means: 'One Slipway with its database. Resources at providers are tagged with its id.' },
  instance: { means: 'One incarnation of a node. Imaging or enrolling it again makes the next one.' },
  join: { means: 'How a machine that somebody else started becomes a node of a pool, by a join token.' },
  layer: { means: 'The part of the system that states a fact or owns a problem: node, rule, provider, operator, …' },
  lease: { means: 'The right to work on something for a limited time.' },
  lifecycle: {
    means: 'All statuses of nodes and allocations, the transitions between them, and the decisions that cause them.',
  },
  limit: { means: 'A bound on what one caller may cause, so that it cannot harm others.' },
  liveness: { means: 'The rule that decides from heartbeats and probes whether a machine is alive.' },
  maintenance: { means: 'A window in which verdicts pause for the machines that it covers.' },
  make: { means: "A pool's current image, spec and runtime class. Budgets are learned from boots of the same make." },
  node: { means: 'A machine as Slipway knows it, over all its instances.' },
  'observe-only': { means: 'A pool whose rules only record what they would have done.', formerly: ['isObserved'] },
  occupancy: {
    means: 'Whether a node is free, reserved, occupied or in cleanup. Derived from its allocation and its residue.',
  },
  operation: {
    means: 'Durable work in named steps, such as bringing a machine up. After a crash another replica continues it.',
  },
  origin: { means: 'Who stated a fact: the control plane, a machine, a person or a program.' },
  orphan: { means: 'Something at a provider that has our tags but no owner in our records.' },
  overload: {
    means: 'A replica has more work than it can do. It sheds lists first, then lengthens heartbeat intervals.',
  },
  owner: { means: 'The layer that has to act on a verdict.' },
  pace: { means: 'How often a client sends heartbeats: assigned by the server, announced, or measured.' },
  phase: { means: 'A part of a lifecycle with its own budget, such as provisioning or start-up.' },
  ping: { means: 'A task that proves that tasks reach an agent, and that its signed answers arrive.' },
  policy: { means: 'The part of a pool document that says how its rules decide, for example its budgets.' },
  pool: { means: 'A class of machines: driver, image, budgets, limits, heartbeat and release policy.' },
  prerequisite: { means: 'Something that a machine must have before it may be ready.' },
  probe: { means: 'A request that the server sends to a machine to see whether it answers.' },
  progress: { means: 'How far an operation is, computed by the server from its steps and from earlier runs.' },
  proof: { means: 'A checked statement that a machine is clean, gone or cut off, bound to a fresh nonce.' },
  protocol: {
    means: 'A foreign wire format that we support, such as that of AgentField or molecule.',
    formerly: ['door', 'front door'],
  },
  provider: { means: 'Who runs the machines: this host, a container engine, a cloud, or somebody else.' },
  quota: { means: 'How much a caller may cause within a time: rows, bytes or requests.' },
  recovery: { means: 'One action on many machines: first on a canary, then on the others at a capped rate.' },
  redact: { means: 'To replace secrets in a text before it is stored, shown or sent.', formerly: ['strike', 'tame'] },
  relay: { means: 'A program that passes on the heartbeats of machines that cannot reach the server.' },
  release: { means: 'Giving an allocation back: fence, drain, stop, clean, prove.' },
  replay: { means: 'Recorded history judged by a proposed policy.' },
  replica: { means: 'One server process. Several share one database.' },
  report: { means: 'What a node says about itself.', formerly: ['claim'] },
  rescue: { means: 'Taking a failed machine back when it comes up late, within its rescue window.' },
  'rescue window': { means: 'The time after a failure in which a late machine can still be rescued.' },
  residue: {
    means:
      'A resource at a provider without a live owner: left by a forced release, or found as an orphan. On record until it is proven gone or adopted.',
  },
  restoration: {
    means:
      'The time after a restore of the database in which the servers only observe, until a person has compared the machines and ends it.',
  },
  retention: { means: 'How long rows of a kind are kept after they ended. The settings name the time.' },
  rule: { means: 'A sweep that gives verdicts. Every verdict names its rule.' },
  'runtime class': { means: 'A named set of budgets that pools refer to.' },
  sample: { means: 'The recorded duration and outcome of one phase of one boot.' },
  scope: { means: 'Which pool or tenant a token is valid for.' },
  seal: { means: 'To hash evidence rows into a chain and sign checkpoints over it.' },
  secret: {
    means: 'A named value that the server stores encrypted, and hands to a driver when it launches a machine.',
  },
  session: { means: 'A signed-in browser. It ends by time, by sign-out, or with its token.' },
  setting: { means: 'What the server was started with, and where each value came from.' },
  shed: { means: 'To refuse or postpone the least important work while overloaded.' },
  spec: { means: 'What a pool asks its driver for: image, size, network and so on.' },
  spool: { means: 'The files in which an agent keeps log lines and facts until the server has stored them.' },
  stage: { means: 'A named part of a boot or of an operation.' },
  stale: { means: 'Without a heartbeat for longer than the stale time of the machine.' },
  status: { means: 'Where a node, an allocation or an operation is in its lifecycle. The tables below list them.' },
  step: { means: 'The smallest part of an operation that is recorded and retried.' },
  stratum: { means: 'A group of similar boots that a budget is learned from.' },
  stream: { means: 'A connection over which the server pushes changes, or an agent its heartbeats.' },
  supervision: { means: 'Judging machines by heartbeat, probe and time, and what the rules decided lately.' },
  sweep: { means: 'One rule or job, applied to every row that it concerns, at an interval or when something changed.' },
  task: { means: 'Signed work that an agent runs, such as stopping the workload or proving it clean.' },
  teardown: { means: 'Stopping and removing a machine.', formerly: ['ending', 'take-down'] },
  tenant: { means: 'A customer or team. Its allocations are invisible to other tenants.' },
  token: { means: 'The secret by which a person or a program signs in.' },
  transition: {
    means: 'A change of status by the transition table. Only store/transitions writes one.',
    formerly: ['door'],
  },
  'upgrade window': {
    means: 'The versions before the present one that may run beside it: the two MINORs before (N-2).',
  },
  upstream: { means: 'At the provider, or at the next server on the way.' },
  verdict: { means: 'A decision of a rule about a machine, with its evidence, its owner and the ways out.' },
  visibility: {
    means: 'Which rows a caller may see: those of one tenant, or of the whole fleet.',
    formerly: ['tenancy'],
  },
  watcher: { means: 'A sweep that observes, and opens or closes findings, but gives no verdict.' },
  'what-if': { means: 'Computes what another budget would have done to the recorded boots.' },
  zone: { means: 'A part of a provider that can fail as a whole. The brake counts per pool and per zone.' },
} as const satisfies Record<string, GlossaryEntry>;

export type GlossaryWord = keyof typeof entries;

export const glossary: Record<GlossaryWord, GlossaryEntry> = entries;
