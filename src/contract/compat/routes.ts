/** Every call of the compatibility protocols, by operation id. */
import { agentfieldRoutes } from './agentfield.ts';
import { moleculeRoutes } from './molecule.ts';
import type { ProtocolRoute } from './protocol.ts';

export const protocolRoutes = { ...agentfieldRoutes, ...moleculeRoutes } as const;
export type ProtocolOperation = keyof typeof protocolRoutes;

/** The path without a token. */
export const protocolPath = ({ protocol, path }: ProtocolRoute): string => `/compat/${protocol}${path}`;
