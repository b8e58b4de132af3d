/**
 * Sends the heartbeats of the fleet. Each agent sends its heartbeats through its relay, its stream
 * or by calls, at the assigned interval ± 10 %.
 */
import { addJitter } from '../../src/base/backoff.ts';
import { systemClock } from '../../src/base/clock.ts';
import { effectiveStaleSeconds } from '../../src/lifecycle/deadlines/heartbeat-policy.ts';
import { type Agents, agentStates } from './agents.ts';
import { createCalls } from './calls.ts';
import { falteringShare } from './plan.ts';
import { type BeatAnswer, countUp, createRelay, newTally, type Relay, type Tally } from './relay.ts';
import { createStreams } from './streams.ts';

const turnMs = 25;
/** The waiting time is measured for one heartbeat in this many. */
const sampleEvery = 37;
const retrySeconds = 5;

export interface LoadOptions {
  agents: Agents;
  relays: number;
  /** The number of agents with a stream of their own. They are the first agents. */
  streams: number;
  /** Of the other agents, one in this many sends calls; 0 means none. */
  one_calls_in: number;
  /** The current address for a relay or an agent, by its number. */
  urlOf(number: number): string;
}

export interface Load {
  tally: Tally;
  /** Heartbeats that are due but not sent yet. */
  behind(): number;
  stop(): void;
}

export function startLoad({ agents, relays, streams, one_calls_in, urlOf }: LoadOptions): Load {
  const tally = newTally();
  let isStopped = false;
  let answers = 0;

  const onAnswer = (agent: number, answer: BeatAnswer, sentMs: number) => {
    const nowMs = systemClock.nowMs();
    if (answer.heartbeat_interval_seconds === undefined) {
      countUp(tally.refused, answer.code ?? 'no answer');
      if (agents.state[agent] !== agentStates.dead)
        agents.wheel.schedule(agent, nowMs + addJitter(retrySeconds * 1000));
      return;
    }
    agents.sentMs[agent] = sentMs;
    agents.answeredMs[agent] = nowMs;
    agents.interval[agent] = answer.heartbeat_interval_seconds;
    if (answers++ % sampleEvery === 0) tally.waitedMs.push(nowMs - (agents.dueMs[agent] ?? nowMs));
    agents.wheel.schedule(agent, nowMs + addJitter(answer.heartbeat_interval_seconds * 1000));
  };

  const relayList: Relay[] = Array.from({ length: relays }, (_, place) =>
    createRelay(agents, () => urlOf(place), tally, onAnswer),
  );
  const ownStreams = createStreams(agents, urlOf, tally, onAnswer);
  const calls = createCalls(agents, urlOf, tally, onAnswer);
  const usesCalls = (agent: number) => one_calls_in > 0 && agent % one_calls_in === 0;

  /**
   * Delays the next heartbeat of a faltering agent until most of its stale time is over. Returns
   * false if its heartbeat is sent now.
   */
  const delayIfFaltering = (agent: number, nowMs: number): boolean => {
    const { state, sentMs, interval, wheel } = agents;
    if (state[agent] !== agentStates.faltering || !sentMs[agent]) return false;
    state[agent] = agentStates.beating;
    const untilMs = (sentMs[agent] ?? 0) + falteringShare * effectiveStaleSeconds(0, interval[agent] ?? 0) * 1000;
    if (untilMs <= nowMs) return false;
    wheel.schedule(agent, untilMs);
    return true;
  };

  const beat = (agent: number, nowMs: number) => {
    if (agents.state[agent] === agentStates.dead || delayIfFaltering(agent, nowMs)) return;
    agents.dueMs[agent] = nowMs;
    if (agent < streams) ownStreams.send(agent);
    else if (usesCalls(agent)) calls.send(agent);
    else relayList[agent % relays]?.add(agent);
  };

  const turn = () => {
    if (isStopped) return;
    const nowMs = systemClock.nowMs();
    agents.wheel.due(nowMs, (agent) => beat(agent, nowMs));
    for (const relay of relayList) relay.turn(nowMs);
    systemClock.after(turnMs, turn);
  };
  turn();

  return {
    tally,
    behind: () => relayList.reduce((sum, relay) => sum + relay.waiting(), 0),
    stop() {
      isStopped = true;
      for (const relay of relayList) relay.stop();
      ownStreams.stop();
      calls.stop();
    },
  };
}
