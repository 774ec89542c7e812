#pragma once
#define PLUGINLIB_EXPORT_CLASS(one, base) static_assert(std::is_base_of_v<base, one>);
