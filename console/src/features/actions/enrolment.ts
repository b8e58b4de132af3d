/** The line that starts an agent with a new token, as the command line prints it. Pure. */

/** Given by the environment: a command line can be read by everybody on the machine. */
export const enrolLine = (token: string, server: string): string =>
  `SLIPWAY_ENROLLMENT_TOKEN=${token} slipway agent --server ${server}`;
