export { type BodyPlan, planBody } from './body-plan.ts';
export { DirectHttpClient } from './client.ts';
export { DirectHttpError } from './errors.ts';
export type { DirectRequest, DirectResponse, Into } from './message.ts';
export { isHeaderValue } from './request-head.ts';
export type { ResponseHead } from './response-head.ts';
