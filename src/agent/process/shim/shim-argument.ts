/** The first argument that makes the agent's file run as a shim. */
export const shimArgument = 'command-shim';
