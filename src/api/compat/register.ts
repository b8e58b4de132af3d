/** A registration at a front door, on the same path as those of our own agents. */
import { now } from '../../base/clock.ts';
import { RegisterRequest } from '../../contract/agent.ts';
import { ApiProblem } from '../../contract/errors.ts';
import { nameHeld, register } from '../../store/enrolment.ts';
import { type InstanceRow, instanceAtDoor } from '../../store/instances.ts';
import type { Arrival, Registered } from '../../store/registering.ts';
import { compileCheck } from '../validation.ts';
import type { DoorCall, DoorServices } from './calls.ts';

export type Wanted = Omit<RegisterRequest, 'join_token' | 'enrollment_token'> & { name: string };

/** Their words are checked where they come in; what they were translated into is held to what our own agents may say. */
const checkWanted = compileCheck(RegisterRequest, 'body');

export async function enrol(
  call: DoorCall,
  services: DoorServices,
  request: RegisterRequest,
  known: InstanceRow | undefined,
  arrival: Arrival,
): Promise<Registered> {
  const { clock, environment, installation, db } = services;
  const { correlation_id } = call;
  const context = { clock, now: now(clock), environment, installation, correlation_id, arrival };
  const registered = await register(db, checkWanted(request) as RegisterRequest, known, context);
  services.sessions.forget(registered.node_instance_id);
  return registered;
}

/**
 * By join token alone, as often as the client likes. A name that is known registers as the instance that it is, and is counted. Only
 * where it says that it is another process, and the former one is gone, does it begin anew.
 */
export async function enrolByJoinToken(
  call: DoorCall,
  services: DoorServices,
  wanted: Wanted,
  arrival: Arrival,
): Promise<Registered> {
  const { pool, secret: join_token } = call.joined();
  const place = { door: arrival.door, pool, name: wanted.name };
  const as = (known: InstanceRow | undefined) =>
    enrol(call, services, known ? wanted : { ...wanted, join_token }, known, arrival);
  const known = await instanceAtDoor(services.db, place);
  const isAnother =
    known?.client_instance && arrival.client_instance && known.client_instance !== arrival.client_instance;
  if (known && !(isAnother && !nameHeld.includes(known.node_status))) return as(known);
  try {
    return await as(undefined);
  } catch (error) {
    // Two registrations of the same client met: the second is a repetition of the first.
    const first =
      error instanceof ApiProblem && error.code === 'name_taken' && (await instanceAtDoor(services.db, place));
    if (!first) throw error;
    return as(first);
  }
}
